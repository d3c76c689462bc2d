package plugin

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/clusterip-operator/clusterip-operator/test/bench/cluster"
)

// stored is what the objects of a cluster take where they are kept and sent.
type stored struct {
	// Etcd is the size of its database, in bytes.
	Etcd float64
	// Service and IPAddress are the bytes of one as API servers send it, of a page of many.
	Service, IPAddress float64
	// APIServer is the memory of kube-apiserver, in bytes, after its start on them.
	APIServer float64
}

// onPage is how many objects the average is of.
const onPage = 500

func measureStored(ctx context.Context, c *cluster.Cluster) (s stored, err error) {
	if s.Etcd, err = databaseSize(ctx, c.Etcd.URL()); err != nil {
		return s, err
	}
	if s.Service, err = sent(ctx, c.Client.CoreV1().RESTClient(), "/api/v1/services"); err != nil {
		return s, err
	}
	if s.IPAddress, err = sent(ctx, c.Client.NetworkingV1().RESTClient(), "/apis/networking.k8s.io/v1/ipaddresses"); err != nil {
		return s, err
	}
	memory, err := c.API.RSS()
	s.APIServer = float64(memory)
	return s, err
}

// sent is how large an object of a list is on the wire, in protobuf.
func sent(ctx context.Context, c rest.Interface, path string) (float64, error) {
	page, err := c.Get().AbsPath(path).Param("limit", fmt.Sprint(onPage)).DoRaw(ctx)
	return float64(len(page)) / onPage, err
}

// databaseSize asks etcd for the size of its database.
func databaseSize(ctx context.Context, url string) (size float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "etcd_mvcc_db_total_size_in_bytes "); ok {
			_, err = fmt.Sscan(text, &size)
			return size, err
		}
	}
	return 0, fmt.Errorf("etcd at %s does not tell the size of its database", url)
}
