"""The depot's caller on zeep; one JSON line for each operation.

Run: /usr/bin/python3 client.py URL 11|12 OPERATION...
With DEPOT_WSDL, which is a URL, the addresses in that WSDL count.
"""

import json
import os
import pathlib
import sys

import zeep
import zeep.exceptions
import zeep.transports

TEXT = "héllo <&> ]]> 测试"
WSDL = pathlib.Path(__file__).resolve().parent.parent / "depot.wsdl"


def located(out):
    """The shelf, null when nil, and the note only when there is one."""
    line = {"shelf": out.shelf}
    if out.note is not None:
        line["note"] = out.note
    return line


def bulk(depot):
    text = TEXT * 40000
    got = depot.Label(text)
    return {"octets": len(got.encode()), "same": got == text}


OPERATIONS = {
    "quote": lambda depot: {"cents": depot.Quote(6, 7)},
    "label": lambda depot: {"text": depot.Label(TEXT)},
    "bulk": bulk,
    "locate": lambda depot: located(depot.Locate("P-1", "top")),
    "locate-nil": lambda depot: located(depot.Locate("P-2")),
    "refuse": lambda depot: {"refused": str(depot.Refuse(TEXT))},
}


def main(url, version, names):
    transport = zeep.transports.Transport(timeout=30, operation_timeout=30)
    if fetched := os.environ.get("DEPOT_WSDL"):
        depot = zeep.Client(fetched, transport=transport).bind("Depot", "Port" + version)
    else:
        client = zeep.Client(str(WSDL), transport=transport)
        depot = client.create_service("{urn:example:depot}Depot" + version, url)
    for name in names:
        line = {"op": name}
        try:
            line |= OPERATIONS[name](depot)
        except zeep.exceptions.Fault as fault:
            detail = "" if fault.detail is None else "".join(fault.detail.itertext())
            line |= {
                "exception": type(fault).__module__ + "." + type(fault).__name__,
                "code": fault.code.rpartition(":")[2],
                "message": fault.message,
                "detail": detail.strip(),
            }
        print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
