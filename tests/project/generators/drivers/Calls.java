import java.io.File;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.*;
import org.openapitools.client.model.*;

/** Ten calls with the Java client of openapi-generator. */
public class Calls {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = System.getenv();
        ApiClient client = new ApiClient();
        client.updateBaseUri(given.get("URL"));
        client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + given.get("KEY")));
        PostsApi posts = new PostsApi(client);
        List<Target> targets = List.of(new Target().accountId(given.get("ACCOUNT")));

        PlatformList platforms = new CatalogueApi(client).listPlatforms();
        System.out.println("platforms " + platforms.getData().stream()
            .map(row -> row.getPlatform().getValue()).sorted().collect(Collectors.joining(",")));
        Validation checked = posts.validatePosts(new ValidateRequest().targets(targets).text("Now."), null);
        System.out.println("validate " + checked.getValid() + " " + checked.getResults().get(0).getText().getLength());
        Batch now = posts.publishPosts(new PublishRequest().targets(targets).text("Now."), null, null);
        Result result = now.getResults().get(0);
        System.out.println("publish " + result.getStatus() + " " + result.getUrl());
        MediaFile media = new MediaApi(client).uploadMedia(
            new File(given.get("PICTURE")), null, null, null, null, "A square.");
        System.out.println("media " + media.getKind() + " " + media.getWidth() + " " + media.getAltText());
        PublishRequest schedule = new PublishRequest().targets(targets).text("Later.")
            .media(List.of(new MediaEntry(media.getId()))).scheduledAt(OffsetDateTime.parse(given.get("AT")));
        Batch later = posts.publishPosts(schedule, null, null);
        String post = later.getResults().get(0).getPostId();
        System.out.println("schedule " + later.getStatus() + " " + later.getResults().get(0).getStatus());
        PostDetail shown = posts.readPost(post, null, null);
        System.out.println("get " + shown.getStatus() + " " + shown.getText() + " "
            + shown.getMediaRefs().get(0).getKind() + " " + shown.getAttempts().size());
        PostEditRequest change = new PostEditRequest().scheduledAt(OffsetDateTime.parse(given.get("MOVED")));
        Post moved = posts.editPost(post, change, null, null, null);
        System.out.println("patch " + moved.getScheduledAt().toEpochSecond());
        System.out.println("cancel " + posts.cancelPost(post, null, null, null).getStatus());
        SignedEndpoint endpoint = new WebhooksApi(client).registerWebhookEndpoint(
            new EndpointRequest().url(given.get("RECEIVER")).events(List.of(EventType.EVENT_TYPE_QUOTA_WARNING)), null);
        System.out.println("endpoint " + endpoint.getEvents().get(0) + " "
            + endpoint.getSigningSecret().substring(0, 6));
        List<Event> events = new EventsApi(client).listEvents(null, null, null, null, null, null).getData();
        System.out.println("events " + events.stream().map(Calls::type).sorted().collect(Collectors.joining(",")));
        System.out.println("url " + events.stream().map(Event::getActualInstance)
            .filter(PostPublishedEvent.class::isInstance)
            .map(event -> ((PostPublishedEvent) event).getData().getUrl()).collect(Collectors.joining(" ")));
        try {
            posts.publishPosts(new PublishRequest().targets(targets).text("x".repeat(301)), null, null);
        } catch (ApiException refused) {
            EnvelopeError error = client.getObjectMapper()
                .readValue(refused.getResponseBody(), ErrorEnvelope.class).getError();
            Map<?, ?> first = (Map<?, ?>) ((List<?>) error.getPlatformResponse()).get(0);
            System.out.println("error " + refused.getCode() + " " + error.getCode() + " " + error.getRule() + " "
                + first.get("targetIndex"));
        }
    }

    static String type(Event event) {
        Object found = event.getActualInstance();
        try {
            return String.valueOf(found.getClass().getMethod("getType").invoke(found));
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
