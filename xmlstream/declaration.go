package xmlstream

// maxDeclared is the longest declaration that is kept.
const maxDeclared = 128

// declaration scans the XML declaration, whose "<?xml" ends at i and is
// followed by white space (XML 1.0 §2.8 [23]–[26], §4.3.3 [80], §2.9 [32]).
// Any version 1.x is processed as 1.0, as the Fifth Edition asks.
func (s *Scanner) declaration(i int) (Kind, error) {
	s.blank = 0
	_, err := s.blanks(&i)
	if err != nil {
		return 0, err
	}
	lo := i
	if i, err = s.pseudo(i, "version", isVersion, errVersion); err != nil {
		return 0, err
	}
	hi := i
	for _, attr := range []struct {
		name  string
		valid func(v []byte) bool
	}{{"encoding", isEncodingName}, {"standalone", isYesNo}} {
		c, err := s.blanks(&i)
		if err != nil {
			return 0, err
		}
		if i == hi || c != attr.name[0] {
			continue
		}
		if i, err = s.pseudo(i, attr.name, attr.valid, errDeclaration); err != nil {
			return 0, err
		}
		hi = i
	}
	if _, err = s.blanks(&i); err != nil {
		return 0, err
	}
	if err := s.expect(i, "?>", errDeclaration); err != nil {
		return 0, err
	}
	s.lo, s.hi, s.pos = s.tok+lo, s.tok+hi, s.tok+i+2
	if s.roomy && i+2 <= maxDeclared {
		s.declared = append(s.declared[:0], s.Raw()...)
		s.declaredText = span{start: lo, end: hi}
	}
	return Declaration, nil
}

// pseudo scans name="value" at i, either quote, and returns the index behind
// it. A value is bounded as a name is.
func (s *Scanner) pseudo(i int, name string, valid func(v []byte) bool, reason error) (int, error) {
	if err := s.expect(i, name, errDeclaration); err != nil {
		return 0, err
	}
	i += len(name)
	c, err := s.blanks(&i)
	if err != nil {
		return 0, err
	}
	if c != '=' {
		return 0, s.fault(i, errDeclaration)
	}
	i++
	quote, err := s.blanks(&i)
	if err != nil {
		return 0, err
	}
	if quote != '"' && quote != '\'' {
		return 0, s.fault(i, errDeclaration)
	}
	i++
	for start := i; ; i++ {
		c, ok := s.at(i)
		switch {
		case !ok:
			return 0, s.ended()
		case c == quote:
			if !valid(s.window()[start:i]) {
				return 0, s.fault(start, reason)
			}
			return i + 1, nil
		case class[c]&nameChar == 0:
			return 0, s.fault(i, errDeclaration)
		case i-start >= max(s.lim.Name, leastName):
			return 0, s.exceeded(i, limitName, int64(s.lim.Name))
		}
	}
}

func isVersion(v []byte) bool {
	if len(v) < 3 || v[0] != '1' || v[1] != '.' {
		return false
	}
	for _, c := range v[2:] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// isEncodingName checks the first character; pseudo has checked the others.
func isEncodingName(v []byte) bool { return len(v) > 0 && class[v[0]]&nameStart != 0 && v[0] != '_' }

func isYesNo(v []byte) bool { return string(v) == "yes" || string(v) == "no" }
