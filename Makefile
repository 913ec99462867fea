# Every target is one plain command; `go test ./...` alone is enough to work.
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT)
TOOL    := $(GO) tool -modfile=internal/tools/go.mod
N       ?= 200000x
PKG     ?= ./...
FAULTS  ?= 60s
KILLS   ?= 15
LABTESTS ?= Faults|Frozen|FullDisk|Brim|OutageAndKill
WHAT    ?= queue
LAB     := cd internal/faultlab && ../../bin/faultlab.test -test.v -test.timeout 2h

.PHONY: run build test check fuzz conformance golden docs rules bench purego cross interop clean faults powercuts links versus versus-queue versus-xml versus-proxy versus-bench

# The shipped gateway.yaml stores messages in ./data. Where a sync proves nothing,
# as in a container without a volume, the gateway refuses that: for a first look
# the weaker promise will do.
run: build ## start the gateway with the shipped gateway.yaml
	@case "$$(stat -f -c %T . 2>/dev/null)" in \
	overlayfs|tmpfs|ramfs|fuse*|nfs|v9fs|smb*|cifs) \
		echo 'note: this folder is no place for a strict store: running with GATEWAY_STORE_DURABILITY=relaxed' >&2; \
		export GATEWAY_STORE_DURABILITY=relaxed;; \
	esac; exec bin/gateway serve

build: ## build bin/gateway
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/gateway ./cmd/gateway

test: ## every test, with the race detector
	$(GO) test -race -shuffle=on ./...

check: ## formatting, vet, staticcheck, tidy module, tests
	@test -z "$$($(TOOL) gofumpt -l .)" || { $(TOOL) gofumpt -l .; echo 'run: $(TOOL) gofumpt -w .'; exit 1; }
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	@test -z "$$($(GO) fix -diff ./...)" || { $(GO) fix -diff ./...; echo 'run: $(GO) fix ./...'; exit 1; }
	$(GO) mod tidy -diff
	$(MAKE) test

# Without a bound the minimizer may take a minute for each input that is new, and
# leaves no time to look for others: coverage differs between runs of one input.
fuzz: ## each fuzz target, N inputs or a time, in PKG: make fuzz N=1000000x, make fuzz N=10m PKG=./xmlstream
	@for pkg in $$($(GO) list $(PKG)); do \
		targets=$$($(GO) test -list '^Fuzz' $$pkg) || { echo "$$targets"; exit 1; }; \
		for f in $$(echo "$$targets" | grep '^Fuzz'); do \
			echo "== $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(N) -fuzzminimizetime 100x $$pkg || exit 1; \
		done; \
	done

conformance: ## the codec against the W3C suite, SOAP collections, attacks, libxml2 and xmlsec1
	$(GO) test -count=1 -v ./internal/conformance -fetch
	$(GO) test -count=1 -v -run '^TestCanonicalXml(lint|sec)$$' ./xmlstream

golden: ## accept changed golden outputs, then review the diff
	$(GO) test ./config ./soapcodec ./xmlstream ./cmd/gateway -update; git diff --stat

docs: ## docs/reference from the types of the configuration and the OpenAPI document
	$(GO) test ./internal/reference -run TestUpToDate -update

rules: ## the Prometheus rules against their tests; needs promtool (Debian: prometheus)
	cd deploy/prometheus && promtool check rules soapway.rules.yaml && promtool test rules soapway.test.yaml

bench: ## start-up time, resident memory and codec speed
	$(GO) test -run '^$$' -bench . ./cmd/gateway ./xmlstream ./soapcodec ./proxy/...

purego: ## the codec's tests as they are where there is no assembly
	$(GO) vet -tags purego ./xmlstream ./soapcodec
	$(GO) test -tags purego ./xmlstream/... ./soapcodec/... ./internal/conformance

cross: ## build for every platform that is supported
	GOOS=linux GOARCH=amd64 $(GO) build ./...
	GOOS=linux GOARCH=arm64 $(GO) build ./...
	GOOS=darwin GOARCH=arm64 $(GO) build ./...
	GOOS=windows GOARCH=amd64 $(GO) build ./...

interop: ## clients and servers of other stacks through the gateway
	bash interop/setup.sh
	INTEROP=1 $(GO) test -count=1 -v ./interop/...

faults: ## kill, stop, cut and disturb a gateway under load: make faults FAULTS=60s
	$(GO) test -c -o bin/faultlab.test ./internal/faultlab
	$(LAB) -test.run '^Test($(LABTESTS))$$' -outage 10000 -faults $(FAULTS) -kills $(KILLS)

powercuts: N = 30
powercuts: ## power cuts on an ext4 of its own, as root: make powercuts N=1000
	$(GO) test -c -o bin/faultlab.test ./internal/faultlab
	$(LAB) -test.run '^TestPowerCuts$$' -cuts $(N)

links: N = 10000
links: ## two gateways, each in a network and on a disk of its own, and all that can be wrong between them, as root: make links N=10000
	$(GO) test -c -o bin/faultlab.test ./internal/faultlab
	$(LAB) -test.run '^TestLink(Faults)?$$' -link $(N)

versus: ## ours beside what one could use instead, in one run: make versus WHAT=queue, WHAT=xml, WHAT=proxy, WHAT=bench
	@case '$(WHAT)' in queue|xml|proxy|bench) ;; *) echo 'versus: WHAT=queue, WHAT=xml, WHAT=proxy and WHAT=bench are what there is'; exit 2;; esac
	$(MAKE) versus-$(WHAT)

versus-queue:
	$(GO) test -c -o bin/faultlab.test ./internal/faultlab
	$(GO) test ./queue -run '^$$' -bench VersusPut -benchtime 5x -count 1
	$(LAB) -test.run '^TestVersusQueue$$' -versus

versus-xml:
	bash internal/xmlversus/setup.sh
	$(GO) -C internal/xmlversus build -o ../../bin/xmlversus .
	$(GO) -C internal/xmlversus build -tags purego -o ../../bin/xmlversus-purego .
	bin/xmlversus -purego bin/xmlversus-purego -peers bin/xmlpeers

versus-proxy:
	bash internal/proxyversus/setup.sh
	$(GO) test -c -o bin/proxyversus.test ./internal/proxyversus
	cd internal/proxyversus && ../../bin/proxyversus.test -test.v -test.timeout 30m -versus

versus-bench:
	bash internal/benchversus/setup.sh
	$(GO) test -count=1 -v -timeout 30m ./internal/benchversus -versus

clean:
	rm -rf bin
