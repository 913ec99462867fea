package bench

import _ "embed"

// ResultsSchema is the JSON Schema (draft 2020-12) of results.json.
//
//go:embed results.schema.json
var ResultsSchema []byte
