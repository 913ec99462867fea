// Package queue is being written.
package queue
