package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
)

// serve answers the driver, one line for each command:
//
//	doc FAMILY LENGTH, then so many octets   ok
//	run CONTENDER FAMILY PASSES              NANOSECONDS TALLY
//	allocs CONTENDER FAMILY                  ALLOCATIONS
//
// A pass parses one variant; passes go through all of them in turn. Whatever is wrong
// is an answer that begins with "error".
func serve(in io.Reader, out io.Writer) error {
	r := bufio.NewReader(in)
	docs, parsers := map[string][][]byte{}, contenders()
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		answer, err := obey(r, line, docs, parsers)
		if err != nil {
			answer = "error: " + err.Error()
		}
		if _, err := fmt.Fprintln(out, strings.ReplaceAll(answer, "\n", " ")); err != nil {
			return err
		}
	}
}

func obey(r io.Reader, line string, docs map[string][][]byte, parsers map[string]parse) (string, error) {
	word := strings.Fields(line)
	if len(word) < 3 {
		return "", fmt.Errorf("no such command: %q", line)
	}
	if word[0] == "doc" {
		var length int
		if _, err := fmt.Sscan(word[2], &length); err != nil {
			return "", err
		}
		doc := make([]byte, length)
		if _, err := io.ReadFull(r, doc); err != nil {
			return "", err
		}
		docs[word[1]] = append(docs[word[1]], doc)
		return "ok", nil
	}
	f, family := parsers[word[1]], docs[word[2]]
	if f == nil || len(family) == 0 {
		return "", fmt.Errorf("no contender %q or no document %q", word[1], word[2])
	}
	var t tally
	switch word[0] {
	case "run":
		var passes int
		if _, err := fmt.Sscan(word[len(word)-1], &passes); err != nil {
			return "", err
		}
		from, err := cpuTime()
		if err != nil {
			return "", err
		}
		for i := range passes {
			if err := f(family[i%len(family)], &t); err != nil {
				return "", err
			}
		}
		to, err := cpuTime()
		return fmt.Sprintf("%d %v", (to - from).Nanoseconds(), &t), err
	case "allocs":
		var err error
		next := 0
		n := testing.AllocsPerRun(10*len(family), func() {
			if e := f(family[next%len(family)], &t); e != nil {
				err = e
			}
			next++
		})
		return fmt.Sprintf("%g", n), err
	}
	return "", fmt.Errorf("no such command: %q", line)
}
