<?php
// The depot on PHP's own SoapServer; /11 speaks SOAP 1.1 and /12 SOAP 1.2.
// Start: php -S 127.0.0.1:PORT server.php
// DEPOT_WSDL may name another file than depot.wsdl.

ini_set('soap.wsdl_cache_enabled', '0');
ini_set('memory_limit', '512M');

final class Depot
{
    public function Quote(object $in): array
    {
        return ['cents' => $in->grams * $in->zone];
    }

    public function Label(object $in): array
    {
        return ['text' => $in->text];
    }

    public function Locate(object $in): array
    {
        if (isset($in->hint)) {
            return ['shelf' => 7, 'note' => 'looked at ' . $in->hint];
        }
        return ['shelf' => null];
    }

    public function Refuse(object $in): never
    {
        $detail = ['reason' => 'zone <9> is closed'];
        // PHP makes env:Sender of it in SOAP 1.2; of Sender it makes a code that is not one of SOAP.
        throw new SoapFault('Client', "refused & returned: $in->parcel", null, $detail, 'ParcelRefused');
    }
}

function isVersion12(): bool
{
    return str_ends_with(strtok($_SERVER['REQUEST_URI'], '?'), '/12');
}

$wsdl = getenv('DEPOT_WSDL') ?: dirname(__DIR__) . '/depot.wsdl';
if (isset($_GET['wsdl'])) {
    header('Content-Type: text/xml; charset=utf-8');
    readfile($wsdl);
    return;
}
$server = new SoapServer($wsdl, ['soap_version' => isVersion12() ? SOAP_1_2 : SOAP_1_1]);
$server->setClass(Depot::class);
$server->handle();
