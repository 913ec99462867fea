// Package archtest holds the rules of this repository that a compiler does not
// keep: which package may import which, that each has a package comment, and
// what code and tests must not do. It has tests only.
package archtest
