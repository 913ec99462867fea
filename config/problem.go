package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A Problem is one thing that is wrong with a configuration.
type Problem struct {
	// File is the configuration file as it was given.
	File string
	// Line and Column are 1-based, the column in characters; 0 where the
	// problem has no place in the file.
	Line, Column int
	// Source is empty for the file, else says what set the value, such as
	// "environment: GATEWAY_DRAIN".
	Source string
	// Key is the dotted path, such as routes.orders.match.path. Items are
	// named by their name where they have one, else by their number from 0:
	// routes[1]. Empty for the file as a whole.
	Key string
	// Message says what is wrong, Hint what to do; either in lower case and
	// without a full stop. Hint may be empty.
	Message, Hint string
}

// String returns FILE:LINE:COL: key: what is wrong (hint), without the parts
// that the problem does not have.
func (p Problem) String() string {
	var b strings.Builder
	switch {
	case p.Source != "":
		b.WriteString(p.Source + ": ")
	case p.File != "":
		b.WriteString(p.File)
		if p.Line > 0 {
			b.WriteString(":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column))
		}
		b.WriteString(": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// at gives the problem the place of a value.
func (p *Problem) at(at place) {
	if at.name != "" {
		p.Source = at.source + ": " + at.name
		return
	}
	p.Line, p.Column = at.line, at.col
}

// Problems is the error of a configuration that cannot be used: everything
// that is wrong with it, in the order of the file, then of the environment.
type Problems []Problem

// Error returns one line per problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sort orders the problems by place and drops repetitions.
func (ps Problems) sort() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Key, b.Key),
		)
	})
	return slices.Compact(ps)
}
