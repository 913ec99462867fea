package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"soapway/soapcodec"
)

// A message is one envelope to send, octets as they are in its file.
type message struct {
	name    string
	body    []byte
	version soapcodec.Version // of the media type; never V0
	charset string            // what the document says about itself
}

// messages reads every file, every *.xml of every folder in the order of their
// names, and stdin for "-". What cannot be read of a folder is reported and
// counted in unread. version is that of --soap, V0 if it was not given.
func (c *cli) messages(args []string, version soapcodec.Version) (list []*message, unread int, _ error) {
	if len(args) == 0 {
		return nil, 0, &usageError{"send: no FILE given", "name files or folders, or - for stdin"}
	}
	for i, arg := range args {
		if arg == "-" {
			if slices.Contains(args[:i], "-") {
				return nil, 0, &usageError{"send: stdin can be read once only", ""}
			}
			body, err := io.ReadAll(c.stdin)
			if err != nil {
				return nil, 0, &problem{fmt.Errorf("send: stdin: %w", err), ""}
			}
			list = append(list, c.newMessage("-", body, version))
			continue
		}
		files, err := filesOf(arg)
		if err != nil {
			return nil, 0, err
		}
		for _, f := range files {
			body, err := os.ReadFile(f)
			switch {
			case err != nil && f != arg: // the others of the folder can be sent
				c.complain("send: "+err.Error(), "")
				unread++
				continue
			case err != nil:
				return nil, 0, &problem{fmt.Errorf("send: %w", err), ""}
			}
			list = append(list, c.newMessage(f, body, version))
		}
	}
	if len(list) == 0 {
		return nil, 0, errReported // every file was told
	}
	return list, unread, nil
}

// filesOf returns arg itself, or for a folder its *.xml.
func filesOf(arg string) ([]string, error) {
	fi, err := os.Stat(arg)
	if err != nil {
		return nil, &problem{fmt.Errorf("send: %w", err), ""}
	}
	if !fi.IsDir() {
		return []string{arg}, nil
	}
	entries, err := os.ReadDir(arg) // sorted by name
	if err != nil {
		return nil, &problem{fmt.Errorf("send: %w", err), ""}
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.EqualFold(filepath.Ext(e.Name()), ".xml") {
			files = append(files, filepath.Join(arg, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, &problem{fmt.Errorf("send: the folder %s has no *.xml", arg), ""}
	}
	return files, nil
}

// newMessage finds the version of an envelope unless it is given. What is not
// recognised is sent as well, since to see the answer may be the point.
func (c *cli) newMessage(name string, body []byte, version soapcodec.Version) *message {
	m := &message{name: name, body: body, version: version, charset: charsetOf(body)}
	if m.version == soapcodec.V0 {
		m.version = versionOf(body)
	}
	if m.version == soapcodec.V0 {
		m.version = soapcodec.V11
		c.say("%s: no envelope of a known version, sent as SOAP 1.1", name)
	}
	return m
}

// versionOf looks for the namespace of the envelope; V0 if it has none that is
// known. A document in another charset than UTF-8 is read as far as it goes,
// which for those that contain ASCII is far enough.
func versionOf(body []byte) soapcodec.Version {
	if bytes.HasPrefix(body, []byte{0xff, 0xfe}) || bytes.HasPrefix(body, []byte{0xfe, 0xff}) {
		body = bytes.ReplaceAll(body[2:], []byte{0}, nil) // UTF-16: its ASCII part
	}
	d := soapcodec.NewDecoder(soapcodec.Options{})
	d.ResetBytes(body)
	err := d.Head()
	if v := d.Facts().Version; v != soapcodec.V0 {
		return v
	}
	if e, ok := errors.AsType[*soapcodec.Error](err); ok {
		return e.Version
	}
	return soapcodec.V0
}

var declaredEncoding = regexp.MustCompile(`^<\?xml[^>]{0,100}[ \t\r\n]encoding[ \t\r\n]*=[ \t\r\n]*["']([A-Za-z][A-Za-z0-9._-]{0,39})["']`)

// charsetOf is what the document says: byte order mark, declaration, or the
// UTF-8 that XML 1.0 §4.3.3 makes of silence.
func charsetOf(body []byte) string {
	switch {
	case bytes.HasPrefix(body, []byte{0xff, 0xfe}), bytes.HasPrefix(body, []byte{0xfe, 0xff}):
		return "utf-16"
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return "utf-8"
	}
	if m := declaredEncoding.FindSubmatch(body); m != nil {
		return strings.ToLower(string(m[1]))
	}
	return "utf-8"
}
