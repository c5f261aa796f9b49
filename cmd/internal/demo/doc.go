// Package demo shows pgweir at work in a few seconds: it starts a temporary PostgreSQL and
// pgweir in front of it, drives an ordinary load and then one of twice the capacity through
// it, and tells what came of that.
//
// pgweir runs as a child process, as users run it: the demonstration sees only what any
// client and any DBA sees. What is shown is a list of phases, data in phase.go; a new one
// needs an entry there and nothing else.
//
// Both servers end with the demonstration, however it ends: each is ended in its turn when
// Run returns, and the kernel ends them if this process is killed.
package demo
