<?php
// The depot's caller on PHP's SoapClient; one JSON line for each operation.
// Run: php client.php URL 11|12 OPERATION...
// With DEPOT_WSDL, which is a URL, the addresses in that WSDL count.

ini_set('soap.wsdl_cache_enabled', '0');
ini_set('memory_limit', '512M');
ini_set('default_socket_timeout', '30');

const TEXT = 'héllo <&> ]]> 测试';

$url = $argv[1];
$fetched = getenv('DEPOT_WSDL');
$options = ['soap_version' => $argv[2] === '12' ? SOAP_1_2 : SOAP_1_1];
$client = new SoapClient($fetched ?: dirname(__DIR__) . '/depot.wsdl', $fetched ? $options : $options + ['location' => $url]);

/** All text of a fault's detail, which PHP gives as nested objects. */
function textOf(mixed $value): string
{
    if (is_object($value) || is_array($value)) {
        return implode('', array_map(textOf(...), array_values((array) $value)));
    }
    return trim((string) $value);
}

function locate(SoapClient $client, array $in): array
{
    $out = $client->Locate($in);
    return ['shelf' => $out->shelf] + (isset($out->note) ? ['note' => $out->note] : []);
}

$operations = [
    'quote' => fn () => ['cents' => $client->Quote(['grams' => 6, 'zone' => 7])->cents],
    'label' => fn () => ['text' => $client->Label(['text' => TEXT])->text],
    'bulk' => function () use ($client) {
        $text = str_repeat(TEXT, 40000);
        $got = $client->Label(['text' => $text])->text;
        return ['octets' => strlen($got), 'same' => $got === $text];
    },
    'locate' => fn () => locate($client, ['parcel' => 'P-1', 'hint' => 'top']),
    'locate-nil' => fn () => locate($client, ['parcel' => 'P-2']),
    'refuse' => fn () => ['refused' => (array) $client->Refuse(['parcel' => TEXT])],
];

foreach (array_slice($argv, 3) as $name) {
    try {
        $line = ['op' => $name] + $operations[$name]();
    } catch (SoapFault $fault) {
        $line = [
            'op' => $name,
            'exception' => get_class($fault),
            'code' => preg_replace('/^.*:/', '', $fault->faultcode),
            'message' => $fault->getMessage(),
            'detail' => textOf($fault->detail ?? ''),
        ];
    }
    echo json_encode($line, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES), "\n";
}
