// Package document reads the text of a configuration as far as its syntax goes: sections,
// keys and values, each with its place. It knows TOML and not one key of pgweir's.
//
// Headers, dotted keys and inline tables all become the same [Document]. A line that is not
// TOML is a [Problem] and left out, so that the rest is still looked at. A Problem points at
// its place with line, column and a caret, and masks what may be a password in the excerpt.
//
// The package is the only one that knows the parser.
package document
