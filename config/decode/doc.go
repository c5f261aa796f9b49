// Package decode makes a [schema.File] from the text of a configuration, from a lone URL,
// and from what was typed at the console. It reports all that is wrong at once: keys that
// nobody knows or that are for a later version, values that are refused, and values that
// contradict each other. Each complaint tells what to write instead, also to those who come
// from PgBouncer.
package decode
