// Package plan is what a pgweir is to do: the settings in force as plain values, worked out and
// checked before, and what follows from them alone. The command makes them of a configuration,
// and proxy puts them into force.
package plan
