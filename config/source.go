package config

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file. The YAML library recurses for every level of nesting and
// for every key of a block map, copies a map's keys once per key, and takes
// quadratic time over blank lines in a block scalar; a stack that overflows
// cannot be recovered from. These bounds are far above any real file and keep
// the worst one at about a second (TestHostileInput).
const (
	maxFile       = 16 << 20
	maxStructure  = 1_000_000 // marks that may start a token
	maxBlankLines = 200       // in a row
	maxLine       = 1 << 20   // octets
	maxDepth      = 64
	maxKeys       = 10_000  // of one map
	maxValues     = 100_000 // once aliases are followed
)

// A limitError is a bound that the file broke.
type limitError struct {
	line, col     int
	message, hint string
}

func (e *limitError) Error() string { return e.message }

// source checks the octets of the file and returns it with plain line ends:
// the library counts CR LF as two lines.
func (b *treeBuilder) source(data []byte) (string, bool) {
	if len(data) > maxFile {
		b.report(place{source: b.file}, "", fmt.Sprintf("the file has more than %v", Size(maxFile)), "")
		return "", false
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if bytes.IndexByte(data, 0) >= 0 || bytes.HasPrefix(data, []byte("\xFE\xFF")) || bytes.HasPrefix(data, []byte("\xFF\xFE")) {
		b.report(place{source: b.file}, "", "the file is not text in UTF-8", "save it as UTF-8")
		return "", false
	}
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	line, marks, blank := 0, 0, 0
	for text := range bytes.Lines(data) {
		line++
		if len(text) > maxLine {
			b.report(place{source: b.file, line: line, col: 1}, "", fmt.Sprintf("the line has more than %v", Size(maxLine)), "break it")
			return "", false
		}
		if !utf8.Valid(text) {
			col := 1
			for r, n := utf8.DecodeRune(text); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRune(text) {
				text, col = text[n:], col+1
			}
			b.report(place{source: b.file, line: line, col: col}, "", "not valid UTF-8", "save the file as UTF-8")
			return "", false
		}
		if len(bytes.TrimSpace(text)) > 0 {
			blank = 0
		} else if blank++; blank > maxBlankLines {
			b.report(place{source: b.file, line: line, col: 1}, "", fmt.Sprintf("more than %d blank lines in a row", maxBlankLines), "remove some")
			return "", false
		}
		if marks += structure(text); marks > maxStructure {
			b.report(place{source: b.file, line: line, col: 1}, "", "the file has too many values", "")
			return "", false
		}
	}
	return string(data), true
}

// structure counts the octets of a line that may begin or end a token.
func structure(line []byte) int {
	n := 1
	for i, c := range line {
		switch c {
		case '[', ']', '{', '}', ',', ':', '&', '*', '!', '%', '\'', '"', '#', '|', '>', '<':
			n++
		case '-', '?':
			if i+1 == len(line) || line[i+1] == ' ' || line[i+1] == '\n' || line[i+1] == '\t' {
				n++
			}
		}
	}
	return n
}

// scanTokens splits the source and checks its shape before the library's
// parser recurses over it.
func scanTokens(src string) (token.Tokens, error) {
	tokens := joinPlain(lexer.Tokenize(src))
	flow := 0
	var blocks []block // open block maps and lists, by column
	for i, tk := range tokens {
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow = max(flow-1, 0)
		}
		if flow == 0 {
			var opens bool
			col := tk.Position.Column
			switch tk.Type {
			case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
				opens = true
			case token.MappingValueType:
				if i > 0 {
					opens, col = true, keyColumn(tokens, i)
				}
			}
			if opens {
				for len(blocks) > 0 && blocks[len(blocks)-1].col > col {
					blocks = blocks[:len(blocks)-1]
				}
				if len(blocks) == 0 || blocks[len(blocks)-1].col < col {
					blocks = append(blocks, block{col: col})
				}
				last := &blocks[len(blocks)-1]
				if tk.Type != token.SequenceEntryType {
					last.keys++
				}
				if last.keys > maxKeys {
					return nil, &limitError{tk.Position.Line, tk.Position.Column, fmt.Sprintf("more than %d keys in one map", maxKeys), ""}
				}
			}
		}
		if flow+len(blocks) > maxDepth {
			return nil, &limitError{tk.Position.Line, tk.Position.Column, fmt.Sprintf("nested more than %d levels deep", maxDepth), ""}
		}
	}
	return tokens, nil
}

// joinPlain mends a fault of the library's scanner: in a list inside a flow
// map, such as {to: [http://h:80]}, it takes any colon for the end of a key,
// while YAML 1.2 §7.3.3 asks for a blank, a bracket or a comma behind it. Such
// a token stands without a gap on both sides; it and its neighbours are one
// plain scalar.
func joinPlain(tokens token.Tokens) token.Tokens {
	var out token.Tokens
	var open []token.Type
	joined := false
	for i := 0; i < len(tokens); i++ {
		tk := tokens[i]
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			open = append(open, tk.Type)
		case token.MappingEndType, token.SequenceEndType:
			open = open[:max(len(open)-1, 0)]
		case token.MappingValueType:
			if len(open) == 0 || open[len(open)-1] != token.SequenceStartType || i+1 == len(tokens) || !isPlain(tokens[i+1]) || !touch(tk, tokens[i+1]) {
				break
			}
			value, at, before := ":"+tokens[i+1].Value, tk.Position, out[len(out)-1]
			switch {
			case isPlain(before) && touch(before, tk):
				value, at = before.Value+value, before.Position
				out = out[:len(out)-1]
			case before.Type != token.SequenceStartType && before.Type != token.CollectEntryType:
				out = append(out, tk)
				continue
			}
			out = append(out, token.String(value, value, at))
			joined = true
			i++
			continue
		}
		out = append(out, tk)
	}
	if !joined {
		return tokens
	}
	var linked token.Tokens
	linked.Add(out...) // sets each token's neighbours
	linked[len(linked)-1].Next = nil
	return linked
}

// isPlain reports whether a token is a scalar without quotes on one line.
func isPlain(tk *token.Token) bool {
	switch tk.Type {
	case token.StringType, token.IntegerType, token.FloatType, token.BoolType, token.NullType,
		token.OctetIntegerType, token.HexIntegerType, token.BinaryIntegerType, token.InfinityType, token.NanType:
		return !strings.Contains(tk.Origin, "\n")
	}
	return false
}

// touch reports whether b begins where a ends.
func touch(a, b *token.Token) bool {
	return a.Position.Line == b.Position.Line && a.Position.Column+utf8.RuneCountInString(a.Value) == b.Position.Column
}

// A block is an open block map or list.
type block struct{ col, keys int }

// keyColumn returns the column of the key whose colon is token i.
func keyColumn(tokens token.Tokens, i int) int {
	key := tokens[i-1]
	if i > 1 && key.Position.Line == tokens[i].Position.Line &&
		(tokens[i-2].Type == token.AnchorType || tokens[i-2].Type == token.TagType || tokens[i-2].Type == token.AliasType) {
		return tokens[i-2].Position.Column
	}
	return max(key.Position.Column, 1)
}

// expander returns the function that replaces ${NAME} by variables of env and
// $${ by ${, and notes the names it met in used.
func expander(env map[string]string, used map[string]bool) func(string) (string, *badValue) {
	return func(text string) (string, *badValue) {
		var b strings.Builder
		for {
			before, after, found := strings.Cut(text, "${")
			if !found {
				b.WriteString(text)
				return b.String(), nil
			}
			if strings.HasSuffix(before, "$") {
				b.WriteString(before[:len(before)-1] + "${")
				text = after
				continue
			}
			b.WriteString(before)
			name, rest, found := strings.Cut(after, "}")
			switch {
			case !found:
				return b.String(), bad("end the name with }, or write $${ for a literal ${", "${%s has no closing brace", cut(name))
			case !isVariable(name):
				return b.String(), bad("a name has letters, digits and _; write $${ for a literal ${", "${%s} is not a variable", cut(name))
			}
			used[name] = true
			value, ok := env[name]
			if !ok {
				return b.String(), bad("set it, or write $${ for a literal ${", "the environment variable %s is not set", cut(name))
			}
			b.WriteString(value)
			text = rest
		}
	}
}

// isVariable reports whether s can be the name of an environment variable.
func isVariable(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9' || i == 0) {
			return false
		}
	}
	return s != ""
}
