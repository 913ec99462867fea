package h1

// CheckRequest refuses, with a [*Refusal], what could not be the first line of
// an HTTP/1.1 request and its Host, for requests that came by another protocol
// and go on by this one. host may be "" where target has an authority.
func CheckRequest(method, target, host string) error {
	if method == "" || !all(method, isToken) {
		return errRequestLine
	}
	authority, err := readTarget(method, target)
	switch {
	case err != nil:
		return err
	case host == "" && authority == "", !all(host, isHost):
		return errHost
	}
	return nil
}

// ContentLength reads the values of all Content-Length fields of a message; -1
// is none. Its error is a [*Refusal].
func ContentLength(values []string) (int64, error) {
	switch len(values) {
	case 0:
		return -1, nil
	case 1:
		if n, ok := number([]byte(values[0])); ok {
			return n, nil
		}
		return 0, errLength
	}
	return 0, errLengths
}
