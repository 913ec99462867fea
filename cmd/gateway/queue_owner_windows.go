package main

// notOurs has nothing to say: files made by an administrator inherit the rights
// of their folder.
func notOurs(string) error { return nil }
