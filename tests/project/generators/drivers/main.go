// Ten calls with the Go client of openapi-generator.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	client "example.org/socialpub/client"
)

func must[T any](value T, err error) T {
	if err != nil {
		var failed *client.GenericOpenAPIError
		if errors.As(err, &failed) {
			panic(string(failed.Body()))
		}
		panic(err)
	}
	return value
}

func at(name string) time.Time {
	return must(time.Parse(time.RFC3339, os.Getenv(name)))
}

func main() {
	settings := client.NewConfiguration()
	settings.Servers = client.ServerConfigurations{{URL: os.Getenv("URL")}}
	api := client.NewAPIClient(settings)
	ctx := context.WithValue(context.Background(), client.ContextAccessToken, os.Getenv("KEY"))
	target := client.NewTarget()
	target.SetAccountId(os.Getenv("ACCOUNT"))
	targets := []client.Target{*target}

	platforms, _, err := api.CatalogueAPI.ListPlatforms(ctx).Execute()
	names := []string{}
	for _, row := range must(platforms, err).Data {
		names = append(names, string(row.Platform))
	}
	sort.Strings(names)
	fmt.Println("platforms", strings.Join(names, ","))

	check := client.NewValidateRequest(targets)
	check.SetText("Now.")
	checked, _, err := api.PostsAPI.ValidatePosts(ctx).ValidateRequest(*check).Execute()
	fmt.Println("validate", must(checked, err).Valid, checked.Results[0].Text.Length)

	publish := client.NewPublishRequest()
	publish.SetTargets(targets)
	publish.SetText("Now.")
	now, _, err := api.PostsAPI.PublishPosts(ctx).PublishRequest(*publish).Execute()
	fmt.Println("publish", must(now, err).Results[0].Status, now.Results[0].GetUrl())

	picture := must(os.Open(os.Getenv("PICTURE")))
	media, _, err := api.MediaAPI.UploadMedia(ctx).File(picture).AltText2("A square.").Execute()
	fmt.Println("media", must(media, err).Kind, media.GetWidth(), media.GetAltText())

	schedule := client.NewPublishRequest()
	schedule.SetTargets(targets)
	schedule.SetText("Later.")
	schedule.SetScheduledAt(at("AT"))
	schedule.SetMedia([]client.MediaEntry{client.StringAsMediaEntry(&media.Id)})
	later, _, err := api.PostsAPI.PublishPosts(ctx).PublishRequest(*schedule).Execute()
	fmt.Println("schedule", must(later, err).Status, later.Results[0].Status)

	post := later.Results[0].PostId
	shown, _, err := api.PostsAPI.ReadPost(ctx, post).Execute()
	fmt.Println("get", must(shown, err).Status, shown.Text, shown.MediaRefs[0].Kind, len(shown.Attempts))

	change := client.NewPostEditRequest()
	change.SetScheduledAt(at("MOVED"))
	moved, _, err := api.PostsAPI.EditPost(ctx, post).PostEditRequest(*change).Execute()
	fmt.Println("patch", must(moved, err).ScheduledAt.Get().Unix())

	canceled, _, err := api.PostsAPI.CancelPost(ctx, post).Execute()
	fmt.Println("cancel", must(canceled, err).Status)

	asked := client.NewEndpointRequest(os.Getenv("RECEIVER"))
	asked.SetEvents([]client.EventType{client.EVENT_TYPE_QUOTA_WARNING})
	endpoint, _, err := api.WebhooksAPI.RegisterWebhookEndpoint(ctx).EndpointRequest(*asked).Execute()
	fmt.Println("endpoint", must(endpoint, err).Events[0], endpoint.SigningSecret[:6])

	page, _, err := api.EventsAPI.ListEvents(ctx).Execute()
	types, urls := []string{}, []string{}
	for _, event := range must(page, err).Data {
		switch found := event.GetActualInstance().(type) {
		case *client.PostPublishedEvent:
			types, urls = append(types, found.Type), append(urls, *found.Data.Url.Get())
		case *client.PostValidatedEvent:
			types = append(types, found.Type)
		case *client.PostQueuedEvent:
			types = append(types, found.Type)
		case *client.PostRescheduledEvent:
			types = append(types, found.Type)
		case *client.PostCanceledEvent:
			types = append(types, found.Type)
		default:
			panic(fmt.Sprintf("%T", found))
		}
	}
	sort.Strings(types)
	fmt.Println("events", strings.Join(types, ","))
	fmt.Println("url", strings.Join(urls, " "))

	long := client.NewPublishRequest()
	long.SetTargets(targets)
	long.SetText(strings.Repeat("x", 301))
	_, response, err := api.PostsAPI.PublishPosts(ctx).PublishRequest(*long).Execute()
	var failed *client.GenericOpenAPIError
	if !errors.As(err, &failed) {
		panic(err)
	}
	refused := failed.Model().(client.ErrorEnvelope).Error
	first := refused.PlatformResponse.([]interface{})[0].(map[string]interface{})
	fmt.Println("error", response.StatusCode, refused.Code, refused.GetRule(), first["targetIndex"])
}
