// Package schema says which sections and keys a configuration has: a [File] with a struct
// for each section, and for each key its default, bounds and documentation and the field
// where its value goes. The defaults that are printed, the reference, the settings and the
// differences of two configurations are all made from this one table.
//
// It knows each section by itself. How a text becomes a File, and whether its sections agree
// with each other, is for package decode.
package schema
