// The depot on npm soap; /11 speaks SOAP 1.1 and /12 SOAP 1.2.
// Run: node server.js PORT
// DEPOT_WSDL may name another file than depot.wsdl.
'use strict';

const fs = require('fs');
const http = require('http');
const path = require('path');
const soap = require('soap');

const wsdl = fs.readFileSync(process.env.DEPOT_WSDL ?? path.join(__dirname, '..', 'depot.wsdl'), 'utf8');
const reason = (parcel) => `refused & returned: ${parcel}`;
const detail = { ParcelRefused: { attributes: { xmlns: 'urn:example:depot' }, reason: 'zone <9> is closed' } };

const fault11 = (parcel) => ({ faultcode: 'soap:Client', faultstring: reason(parcel), detail });
const fault12 = (parcel) => ({ Code: { Value: 'soap:Sender' }, Reason: { Text: reason(parcel) }, Detail: detail });

// The library writes xsi:nil for null, but declares no prefix xsi: that is not namespace-well-formed,
// so the attributes are spelled out. Parcel P-3 gets what the library makes of null by itself.
const nil = { attributes: { 'xmlns:xsi': 'http://www.w3.org/2001/XMLSchema-instance', 'xsi:nil': 'true' } };

// The library answers a thrown fault with status 200 unless it is told another.
const depot = (fault, statusCode) => ({
  Quote: ({ grams, zone }) => ({ cents: grams * zone }),
  Label: ({ text }) => ({ text }),
  Locate: ({ parcel, hint }) => {
    if (hint !== undefined) return { shelf: 7, note: `looked at ${hint}` };
    return { shelf: parcel === 'P-3' ? null : nil };
  },
  Refuse: ({ parcel }) => {
    throw { Fault: { ...fault(parcel), statusCode } };
  },
});

const server = http.createServer((request, response) => {
  response.statusCode = 404;
  response.end();
});
server.listen(Number(process.argv[2]), '127.0.0.1', () => {
  soap.listen(server, { path: '/11', xml: wsdl, services: { Depot: { Port11: depot(fault11, 500) } } });
  soap.listen(server, {
    path: '/12',
    xml: wsdl,
    services: { Depot: { Port12: depot(fault12, 400) } },
    forceSoap12Headers: true,
  });
});
