package webhook

import (
	"context"
	"time"

	"github.com/go-logr/logr"
)

// pause lies between two attempts at something that failed.
const pause = 5 * time.Second

// persist does work until ctx ends, again whenever it fails. It returns nothing that could end a manager.
func persist(ctx context.Context, log logr.Logger, work func(context.Context) error) error {
	for {
		err := work(ctx)
		if ctx.Err() != nil {
			return nil
		}
		log.Error(err, "The certificates of the webhooks are not looked after; trying again", "in", pause.String())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}
