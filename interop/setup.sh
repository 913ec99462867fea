#!/usr/bin/env bash
# Installs and builds the peers of the interoperability tests on Debian: PHP, zeep,
# suds, SOAP::Lite, gSOAP, npm soap and JAX-WS, xmllint and xmlsec1 as second opinions, and what the fault lab injects errors with. May be run again at any
# time. Needs root when a Debian package is missing, and node with npm in any case.
set -euo pipefail
cd "$(dirname "$0")"

packages=(chromium fonts-dejavu-core php-cli php-soap python3-zeep python3-xmlsec python3-suds libsoap-lite-perl gsoap libgsoap-dev gcc libc6-dev openjdk-17-jdk-headless maven libxml2-utils xmlsec1 strace e2fsprogs)
missing=()
for package in "${packages[@]}"; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
command -v npm >/dev/null || missing+=(nodejs npm)

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# quietly runs a step and shows what it printed only when it fails.
quietly() {
	echo "interop: $1"
	shift
	"$@" >"$log" 2>&1 </dev/null || { cat "$log" >&2; echo "interop: failed: $*" >&2; exit 1; }
}

if ((${#missing[@]})); then
	export DEBIAN_FRONTEND=noninteractive
	quietly "package lists" apt-get -o DPkg::Lock::Timeout=300 update
	quietly "install ${missing[*]}" \
		apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}"
fi

# npm ci empties node_modules first, so it runs only when the lock file is newer.
if [ ! -e node/node_modules/.package-lock.json ] || [ node/package-lock.json -nt node/node_modules/.package-lock.json ]; then
	quietly "npm ci" npm ci --prefix node --prefer-offline --ignore-scripts --no-audit --no-fund
fi

depot=.build/gsoap/depot
if [ ! -x $depot ] || [ depot.wsdl -nt $depot ] || [ gsoap/depot.c -nt $depot ] || [ gsoap/typemap.dat -nt $depot ]; then
	mkdir -p .build/gsoap
	quietly "wsdl2h" wsdl2h -c -s -t gsoap/typemap.dat -o .build/gsoap/depot.h depot.wsdl
	quietly "soapcpp2" soapcpp2 -c -x -L -w -d.build/gsoap .build/gsoap/depot.h
	quietly "gcc" gcc -O1 -w -I.build/gsoap -o $depot gsoap/depot.c \
		.build/gsoap/soapC.c .build/gsoap/soapClient.c .build/gsoap/soapServer.c -lgsoap
fi

scan=.build/scan/scan
if [ ! -x $scan ] || [ gsoap/scan.h -nt $scan ] || [ gsoap/scan.c -nt $scan ]; then
	mkdir -p .build/scan
	quietly "soapcpp2" soapcpp2 -c -x -L -w -I/usr/share/gsoap/import -d.build/scan gsoap/scan.h
	quietly "gcc" gcc -O1 -w -I.build/scan -o $scan gsoap/scan.c \
		.build/scan/soapC.c .build/scan/soapClient.c .build/scan/soapServer.c -lgsoap
fi
# JAX-WS comes from Maven Central, at the version that pom.xml names.
lib=.build/jaxws/lib
if [ ! -e $lib/.complete ] || [ jaxws/pom.xml -nt $lib/.complete ]; then
	rm -rf $lib
	mkdir -p $lib
	quietly "mvn dependency:copy-dependencies" \
		mvn -q -B -f jaxws/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$PWD/$lib"
	touch $lib/.complete
fi
classes=.build/jaxws/classes
if [ ! -e $classes/.complete ] || [ -n "$(find jaxws $lib/.complete -newer $classes/.complete)" ]; then
	rm -rf $classes
	mkdir -p $classes
	quietly "javac" javac -encoding UTF-8 -cp "$lib/*" -d $classes jaxws/*/*.java
	touch $classes/.complete
fi
echo "interop: peers are ready"
