package app

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"soapway/config"
	"soapway/soapcodec"
	"soapway/xmlstream"
)

// maxBlockFile bounds the file of a header block: it goes into every message.
const maxBlockFile = 64 << 10

// readBlocks reads the header blocks that routes add, by the name of the route.
func readBlocks(cfg *config.Config) (map[string][]byte, config.Problems) {
	blocks := map[string][]byte{}
	var problems config.Problems
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		if r.SOAP.Add == "" {
			continue
		}
		block, err := readBlock(string(r.SOAP.Add))
		if err != nil {
			problems = append(problems, cfg.Problem("routes."+r.Name+".soap.add", err.Error(), "it takes one element that declares its own namespaces"))
			continue
		}
		blocks[r.Name] = block
	}
	return blocks, problems
}

// readBlock reads one; what is wrong with it has its place in the file.
func readBlock(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if len(data) > maxBlockFile {
		return nil, fmt.Errorf("%s has %d octets, a header block may have %d", file, len(data), maxBlockFile)
	}
	block, err := soapcodec.HeaderBlockOf(data)
	if se, ok := errors.AsType[*xmlstream.SyntaxError](err); ok {
		return nil, fmt.Errorf("%s:%d:%d: %s", file, se.Line, se.Column, strings.TrimPrefix(se.Err.Error(), "xmlstream: "))
	}
	return block, err
}
