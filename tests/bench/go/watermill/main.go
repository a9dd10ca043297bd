// Watermill as the peer of the workers of deliveries: each record of TOPIC becomes a POST to RECEIVER/KEY, with retries.
// A partition has one request at a time, as the subscriber waits for the acknowledgement of each message.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	webhooks "github.com/ThreeDotsLabs/watermill-http/v2/pkg/http"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

const connections = 256 // to the receiver, kept for the next request

func main() {
	logger := watermill.NewStdLogger(false, false)
	config := kafka.DefaultSaramaSubscriberConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers:               []string{os.Getenv("BOOTSTRAP")},
		ConsumerGroup:         "watermill",
		Unmarshaler:           kafka.DefaultMarshaler{},
		OverwriteSaramaConfig: config,
	}, logger)
	check(err)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = connections, connections
	publisher, err := webhooks.NewPublisher(webhooks.PublisherConfig{
		MarshalMessageFunc: webhooks.DefaultMarshalMessageFunc,
		Client:             &http.Client{Transport: transport, Timeout: 15 * time.Second},
	}, logger)
	check(err)
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	check(err)
	router.AddMiddleware(middleware.Retry{MaxRetries: 8, InitialInterval: time.Second, Multiplier: 2, Logger: logger}.Middleware)
	receiver := os.Getenv("RECEIVER")
	router.AddConsumerHandler("webhooks", os.Getenv("TOPIC"), subscriber, func(received *message.Message) error {
		key, _ := kafka.MessageKeyFromCtx(received.Context())
		return publisher.Publish(receiver+"/"+string(key), received)
	})
	ended, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	check(router.Run(ended))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
