package proxy

// StoredFields are the header fields that were kept with a stored message, in
// their order, from its Meta: what an operator is shown.
func StoredFields(meta []byte) ([][2]string, error) {
	m, err := readMeta(meta)
	if err != nil {
		return nil, err
	}
	fields := make([][2]string, len(m.Header))
	for i, f := range m.Header {
		fields[i] = [2]string{string(f[0]), string(f[1])}
	}
	return fields, nil
}
