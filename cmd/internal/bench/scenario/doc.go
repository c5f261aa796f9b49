// Package scenario runs experiments: each is a load, the stage on which it plays, what was
// published about it elsewhere, and targets that pgweir's guard has to meet.
//
// A scenario is data as far as that goes: loads are values, and what is measured and
// demanded are sentences such as "goodput >= 98/s in 10s-15s", which [ParseCheck] reads.
// Where a load does not say it all (a database that freezes, books that have to balance),
// functions are added.
package scenario
