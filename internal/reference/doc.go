// Package reference keeps docs/reference: the reference of every configuration
// key, from the types of package config, and that of the admin API, from its
// OpenAPI document. It has tests only, which fail when a page differs from its
// source; make docs writes the pages anew.
package reference
