"""The depot's caller on suds, which speaks SOAP 1.1 only; one JSON line for each operation.

Run: /usr/bin/python3 client.py URL 11 OPERATION...
"""

import json
import pathlib
import sys

import suds
import suds.client

TEXT = "héllo <&> ]]> 测试"
WSDL = pathlib.Path(__file__).resolve().parent.parent / "depot.wsdl"


def text_of(value):
    """All text of a fault's detail, which suds gives as nested objects."""
    if isinstance(value, suds.sudsobject.Object):
        return "".join(text_of(inner) for _, inner in value)
    return str(value).strip()


def located(out):
    """The shelf, null when nil (then out is None or the shelf an empty object), and the note if there is one."""
    shelf = getattr(out, "shelf", None)
    line = {"shelf": shelf if isinstance(shelf, int) else None}
    if getattr(out, "note", None) is not None:
        line["note"] = str(out.note)
    return line


def bulk(depot):
    text = TEXT * 40000
    got = str(depot.Label(text))
    return {"octets": len(got.encode()), "same": got == text}


OPERATIONS = {
    "quote": lambda depot: {"cents": depot.Quote(6, 7)},
    "label": lambda depot: {"text": str(depot.Label(TEXT))},
    "bulk": bulk,
    "locate": lambda depot: located(depot.Locate("P-1", "top")),
    "locate-nil": lambda depot: located(depot.Locate("P-2")),
    "refuse": lambda depot: {"refused": str(depot.Refuse(TEXT))},
}


def main(url, names):
    client = suds.client.Client(WSDL.as_uri(), location=url, cache=None, port="Port11", timeout=30)
    for name in names:
        line = {"op": name}
        try:
            line |= OPERATIONS[name](client.service)
        except suds.WebFault as error:
            line |= {
                "exception": type(error).__module__ + "." + type(error).__name__,
                "code": error.fault.faultcode.rpartition(":")[2],
                "message": str(error.fault.faultstring),
                "detail": text_of(getattr(error.fault, "detail", "")),
            }
        print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    main(sys.argv[1], sys.argv[3:])
