// Package config reads the one YAML file of a gateway into typed values.
//
// It owns every key of the configuration: its type, its default, its rule, its
// environment variable, and whether this version acts on it. It does not own
// what a key does: nothing here opens a socket, and nothing of the program is
// imported.
//
// # Strictness
//
// [Load] walks the parsed file beside the types and reports all problems at
// once, each with file, line, column and key: unknown and repeated keys (with
// "did you mean"), wrong types, values out of range, references to nothing.
// A key of a later version is parsed and checked like any other and then
// refused as "not available yet" where it asks for something that this version
// would not do; it is never ignored.
//
// # Sources
//
// A value comes from, in this order: [Options.Set] (command line flags), the
// environment (GATEWAY_ and the path of the key, see [Config.Variables]), the
// file, the default in the struct tag. Inside a scalar of the file, ${NAME}
// is replaced by a variable of the environment and $${ is a literal ${. A
// [Secret] written file:PATH is read from that file. Relative paths are
// relative to the configuration file.
//
// # Values
//
// A *Config from Load is complete, with no zero value that stands for a
// default, and is never changed afterwards: it may be shared between
// goroutines. A negative [Duration], [Size] or [Count] means none, that is
// unlimited; a nil pointer means that the feature is off.
//
// # Limits
//
// A file is at most 16 MiB, a line 1 MiB; it nests at most 64 levels and has at
// most 100,000 values once its aliases are followed. See source.go.
//
// # Specifications
//
// YAML 1.2, without merge keys, tags of other types, keys that are not plain
// words, and more than one document. Names of fields and methods are tokens of
// RFC 9110 §5.6.2; QNames follow Namespaces in XML.
package config
