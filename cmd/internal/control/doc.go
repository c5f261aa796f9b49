// Package control is what an administrator may do to a running pgweir and to its configuration:
// the calls, their errors, and what a reload answers. Console and HTTP make the calls; proxy
// and the command behind it do what they say.
package control
