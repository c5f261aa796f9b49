// Package config is pgweir's configuration: the schema of pgweir.toml with its defaults,
// the reading of a file or of a lone connection URL, and the arithmetic of the budget.
//
// A configuration is either right or refused as a whole. [Parse] reports every problem of
// a file at once, each as a [Problem] with its line, column and a caret, and with what to
// write instead; a key that a later version will know is refused too, unless its value
// says what this version does anyway. Values are typed: "none", "auto" and "0" never mean
// each other, and a [Secret] does not print itself.
//
// The package reads files and environment variables and asks nobody else: what Postgres
// has to say about the budget comes in as [Facts].
package config
