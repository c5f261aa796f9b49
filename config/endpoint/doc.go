// Package endpoint has the places in the network that a configuration names: where pgweir
// listens, and the connection URL that says where Postgres is and who logs in there. A URL
// is read as libpq reads it, and no complaint about one repeats what may be its password.
package endpoint
