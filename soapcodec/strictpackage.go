package soapcodec

// CheckStrictPackage returns the fault for the first rule about a message with
// attachments that a request breaks, nil if there is none: ct is the package's
// Content-Type, version that of the envelope in root.
func CheckStrictPackage(version Version, ct ContentType, root *Part) *Fault {
	rule, broken := strictPackage(version, ct, root)
	if !broken {
		return nil
	}
	return &Fault{Code: CodeStrict, Version: version, Reason: CodeStrict.row().reason + ": " + ruleError{rule}.Error() + "."}
}

func strictPackage(version Version, ct ContentType, root *Part) (rule strictRule, broken bool) {
	want := version.MediaType()
	xop := root.Type.Type == typeXOP
	switch {
	case ct.TypeParam != root.Type.Type:
		return rulePackageType, true
	case xop && root.Type.TypeParam != want, !xop && root.Type.Type != want:
		return rulePackageRoot, true
	case xop && essence(ct.StartInfo) != want:
		return rulePackageInfo, true
	}
	return 0, false
}
