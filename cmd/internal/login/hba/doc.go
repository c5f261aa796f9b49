// Package hba reads files in the syntax of Postgres's pg_hba.conf and pg_ident.conf
// and says which rule is for a client, and whether a map lets a system user be a
// role. It asks nobody: what it needs to know of a client is given to it.
//
// It follows Postgres 16 and later, with regular expressions, include directives and
// groups in maps; older files mean the same. Where it knows less than Postgres, as of
// methods that pgweir does not have, of host names, or of regular expressions that Go
// reads in another way, it refuses the file with line and column: a rule that is
// misunderstood lets in the wrong ones.
package hba
