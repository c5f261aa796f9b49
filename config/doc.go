// Package config is pgweir's configuration: the loading of pgweir.toml or of a lone
// connection URL, and what the rest of pgweir asks of the result. That is where a client
// goes and which workload, role and rates it has, the arithmetic of the budget, warnings,
// settings for people, and what a reload changes.
//
// A configuration is either right or refused as a whole. [Parse] reports every problem of
// a file at once, each as a [Problem] with its line, column and a caret, and with what to
// write instead; a key that a later version will know is refused too, unless its value
// says what this version does anyway.
//
// How it is read is below, each package on those before it: config/document has the syntax
// of the file, config/values and config/endpoint the values, config/schema the keys with
// their defaults and documentation, and config/decode puts all together and checks it.
//
// The package reads files and environment variables and asks nobody else: what Postgres
// has to say about the budget comes in as [Facts].
package config
