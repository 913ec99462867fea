// The depot's caller on npm soap; one JSON line for each operation.
// Run: node client.js URL 11|12 OPERATION...
// With DEPOT_WSDL, which is a URL, the addresses in that WSDL count.
'use strict';

const path = require('path');
const soap = require('soap');

const TEXT = 'héllo <&> ]]> 测试';
const [url, version, ...names] = process.argv.slice(2);

// An element value is a string, or an object with $value when it has attributes.
const textOf = (value) => {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'object') return String(value).trim();
  return Object.entries(value)
    .filter(([name]) => name !== 'attributes')
    .map(([, inner]) => textOf(inner))
    .join('');
};

// A response whose only element is nil arrives as null.
const located = (output) => {
  const { shelf, note } = output ?? { shelf: null };
  return note === undefined ? { shelf } : { shelf, note };
};

// The library gives an Error with the parsed reply in root; a fault's shape follows the SOAP version.
const faultLine = (error) => {
  const fault = error.root?.Envelope?.Body?.Fault;
  if (!fault) throw error;
  return {
    exception: `${error.constructor.name} with root.Envelope.Body.Fault`,
    code: textOf(fault.faultcode ?? fault.Code.Value).replace(/^.*:/, ''),
    message: textOf(fault.faultstring ?? fault.Reason.Text),
    detail: textOf(fault.detail ?? fault.Detail),
  };
};

const main = async () => {
  const fetched = process.env.DEPOT_WSDL;
  const wsdl = fetched ?? path.join(__dirname, '..', 'depot.wsdl');
  const client = await soap.createClientAsync(wsdl, { forceSoap12Headers: version === '12' }, fetched ? undefined : url);
  const port = client.Depot[`Port${version}`];
  const call = (operation, input) =>
    new Promise((resolve, reject) => {
      port[operation](input, (error, output) => (error ? reject(error) : resolve(output)), { timeout: 30000 });
    });
  const operations = {
    quote: async () => ({ cents: (await call('Quote', { grams: 6, zone: 7 })).cents }),
    label: async () => ({ text: (await call('Label', { text: TEXT })).text }),
    bulk: async () => {
      const text = TEXT.repeat(40000);
      const got = (await call('Label', { text })).text;
      return { octets: Buffer.byteLength(got), same: got === text };
    },
    locate: async () => located(await call('Locate', { parcel: 'P-1', hint: 'top' })),
    'locate-nil': async () => located(await call('Locate', { parcel: 'P-2' })),
    refuse: async () => ({ refused: await call('Refuse', { parcel: TEXT }) }),
  };
  for (const name of names) {
    let line;
    try {
      line = await operations[name]();
    } catch (error) {
      line = faultLine(error);
    }
    console.log(JSON.stringify({ op: name, ...line }));
  }
};

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
