package main

import (
	"context"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
	"github.com/clusterip-operator/clusterip-operator/controllers/migration/condition"
)

// tellCondition writes into the cluster how far it is.
func (m *migrate) tellCondition(ctx context.Context, l *link, p migration.Plan) {
	if p.World.Allocator == migration.AllocatorBitmap {
		m.writeCondition(ctx, l, condition.Counted(p.OK, p.Addresses))
	}
}

// writeCondition is a courtesy: a user who may not do it has the output of the command.
func (m *migrate) writeCondition(ctx context.Context, l *link, c metav1.Condition) {
	if !l.Served {
		return
	}
	ctx = m.logging(ctx)
	if err := condition.Write(ctx, l.API, l.APIVersion, c, l.Clock.Now()); err != nil {
		logr.FromContextOrDiscard(ctx).Info("The condition of ServiceCIDR kubernetes was not written", "because", err.Error())
	}
}
