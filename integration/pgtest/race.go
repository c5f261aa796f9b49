//go:build race

package pgtest

// raceEnabled makes pgweir under test be built with the race detector, like its tests.
const raceEnabled = true
