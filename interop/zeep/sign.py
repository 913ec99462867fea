"""Prints a signed call of the depot as zeep would send it, with a UsernameToken.

Run: /usr/bin/python3 sign.py KEY.pem CERT.pem 11|12 sha1|sha256
"""

import pathlib
import sys

import xmlsec
import zeep
from lxml import etree
from zeep.wsse.signature import BinarySignature
from zeep.wsse.username import UsernameToken

WSDL = pathlib.Path(__file__).resolve().parent.parent / "depot.wsdl"
TEXT = "héllo <&> ]]> 测试\r\n\ttwo  blanks "
METHODS = {
    "sha1": (xmlsec.Transform.RSA_SHA1, xmlsec.Transform.SHA1),
    "sha256": (xmlsec.Transform.RSA_SHA256, xmlsec.Transform.SHA256),
}


def main(key, cert, version, digest):
    signature, digest = METHODS[digest]
    security = [
        UsernameToken("clerk", "no secret", use_digest=True),
        BinarySignature(key, cert, signature_method=signature, digest_method=digest),
    ]
    client = zeep.Client(str(WSDL), wsse=security)
    depot = client.create_service("{urn:example:depot}Depot" + version, "http://depot.invalid/")
    # create_message applies the security headers already.
    sys.stdout.buffer.write(etree.tostring(client.create_message(depot, "Label", TEXT)))


if __name__ == "__main__":
    main(*sys.argv[1:])
