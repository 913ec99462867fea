"""zeep against a WSDL that it gets: calls Echo on each port. Run: /usr/bin/python3 echo.py WSDL"""

import sys

import zeep

TEXT = ["héllo <&> ]]> 测试", ""]


def main(wsdl):
    client = zeep.Client(wsdl)
    for port in ("Echo11", "Echo12"):
        got = client.bind("Echo", port).Echo(TEXT)
        print(port, [text or "" for text in got] == TEXT)


if __name__ == "__main__":
    main(sys.argv[1])
