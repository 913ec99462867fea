package xmlstream

// Watch names the elements that [Scanner.Seek] looks for, by their local names: f
// must always give the same answer for the same name. It holds for all documents to
// come, until the next call; nil watches none.
func (s *Scanner) Watch(f func(local []byte) bool) {
	s.watch = f
	s.forms.clear() // they know whether they are watched
}

// Seek is Next again and again, with the same checks, limits and errors, up to the
// start tag of an element that is watched, or the end of the root element. Outside
// of the root element it is a single Next.
//
// Hot path: must not allocate (TestAllocs). Measure:
//
//	go test ./xmlstream -run '^$' -bench Seek -count 10
func (s *Scanner) Seek() (Kind, error) {
	for {
		if s.inContent(1) {
			s.skim()
		}
		k, err := s.Next()
		switch {
		case err != nil:
			return 0, err
		case len(s.open) == 0, k == End && len(s.open) == 1, k == Start && s.watch != nil && s.watch(s.Local()):
			return k, nil
		}
	}
}
