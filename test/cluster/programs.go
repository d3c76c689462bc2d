package cluster

import (
	"context"
	"fmt"
	"os"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// programs are the folders of the programs of nodes and control plane, and the program of a node.
type programs struct{ kubernetes, containerd, debian, node string }

// findPrograms builds or fetches what is missing; a first time takes some minutes.
func findPrograms(ctx context.Context, version framework.Version) (p programs, err error) {
	if p.kubernetes, err = version.Assets("kubelet", "kube-scheduler", "kube-controller-manager", "kube-apiserver"); err != nil {
		return p, err
	}
	if p.containerd, err = framework.Assets("containerd"); err != nil {
		return p, err
	}
	if p.debian, err = framework.Packages(ctx, "runc", "containernetworking-plugins"); err != nil {
		return p, err
	}
	p.node, err = framework.TestProgram("./test/cluster/node")
	return p, err
}

// path is PATH on a node.
func (p programs) path() string {
	return fmt.Sprintf("%s:%s:/usr/sbin:/usr/bin:/sbin:/bin", p.kubernetes, p.containerd)
}

// imagesVariable names the folder of the images that Fetch has made.
const imagesVariable = "CLUSTERIP_IMAGES"

// pause is the image that pods are held by, and that every node has.
const pause = "pause"

// Fetch builds and fetches what clusters of some versions consist of, of V137 if none are named,
// and makes images by their names in hack/images.sh. It needs the machine's network, and so comes
// before network.Isolate, which runs the same program once more with the environment that Fetch has
// set: then there is nothing left to do.
func Fetch(ctx context.Context, images []string, versions ...framework.Version) error {
	if Images() != "" {
		return nil
	}
	if len(versions) == 0 {
		versions = []framework.Version{framework.V137}
	}
	for _, version := range versions {
		if _, err := findPrograms(ctx, version); err != nil {
			return err
		}
	}
	dir, err := framework.Images(ctx, append(images, pause)...)
	if err != nil {
		return err
	}
	return os.Setenv(imagesVariable, dir)
}

// Images is the folder of Fetch's images, NAME.tar, and of the files in them, GOARCH/NAME.
func Images() string { return os.Getenv(imagesVariable) }
