import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { assertSeen, openSdkErrors, sdkErrorsStack } from '../support/sdk-errors.ts';
import { openSharedStack } from '../support/shared-stack.ts';
import { skipTest } from '../support/skip-test.ts';
import { buildGo, missingFor, openHome, providePackages, type Registry } from './provide-client.ts';
import { packagesOf } from './shown-clients.ts';

const shared = openSharedStack(test, sdkErrorsStack);
let errors: Awaited<ReturnType<typeof openSdkErrors>>;

test.before(async () => {
  errors = await openSdkErrors(await shared.started());
});
test.after.always(() => errors?.proxy.close());

type Home = Awaited<ReturnType<typeof openHome>>;

/** The program of this SDK gets the address and the questions as JSON, and prints the status and the message of each error. */
async function repeatsWhatCanSucceed(
  t: ExecutionContext,
  sdk: string,
  run: (home: Home, input: string) => Promise<string>,
) {
  const { asks, proxy } = errors;
  await using home = await openHome();
  const printed = JSON.parse(await run(home, JSON.stringify({ url: proxy.url, asks }))) as Printed; // of the program
  const seen = Object.entries(printed).map(([name, error]) => [
    name,
    { ...error, asked: proxy.askedOf(`${sdk} ${name}`) },
  ]);
  assertSeen(t, sdk, Object.fromEntries(seen));
}
type Printed = Record<string, { status: number; message: string }>;

const goProgram = `package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

type ask struct {
	Key, Model, Content string
	Temperature         float64
}
type seen struct {
	Status  int    \`json:"status"\`
	Message string \`json:"message"\`
}

func main() {
	var given struct {
		Url  string
		Asks map[string]ask
	}
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	all := map[string]seen{}
	for name, one := range given.Asks {
		client := openai.NewClient(option.WithBaseURL(given.Url+"/openai/v1"), option.WithAPIKey(one.Key), option.WithHeader("x-case", "go "+name))
		_, err := client.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
			Model:       one.Model,
			Temperature: openai.Float(one.Temperature),
			Messages:    []openai.ChatCompletionMessageParamUnion{openai.UserMessage(one.Content)},
		})
		var failure *openai.Error
		if errors.As(err, &failure) {
			all[name] = seen{failure.StatusCode, failure.Message}
		}
	}
	json.NewEncoder(os.Stdout).Encode(all)
}
`;

const javaProgram = `
import com.fasterxml.jackson.databind.ObjectMapper;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.errors.OpenAIServiceException;
import com.openai.models.chat.completions.ChatCompletionCreateParams;

public class Main {
    public static void main(String[] args) throws Exception {
        var json = new ObjectMapper();
        var given = json.readTree(System.in);
        var all = json.createObjectNode();
        given.get("asks").fields().forEachRemaining(entry -> {
            var ask = entry.getValue();
            var client = OpenAIOkHttpClient.builder().baseUrl(given.get("url").asText() + "/openai/v1")
                    .apiKey(ask.get("key").asText()).putHeader("x-case", "java " + entry.getKey()).build();
            var params = ChatCompletionCreateParams.builder().model(ask.get("model").asText())
                    .temperature(ask.get("temperature").asDouble()).addUserMessage(ask.get("content").asText()).build();
            try {
                client.chat().completions().create(params);
            } catch (OpenAIServiceException error) {
                all.putObject(entry.getKey()).put("status", error.statusCode()).put("message", error.getMessage());
            }
        });
        System.out.println(all);
        System.exit(0);
    }
}
`;

type Program = (home: Home, input: string, folder: string) => Promise<string>;

const sdks: { sdk: string; registry: Registry; name: string; program: Program }[] = [
  {
    ...{ sdk: 'go', registry: 'go', name: 'github.com/openai/openai-go/v3' },
    async program(home, input, folder) {
      await writeFile(join(home.cwd, 'main.go'), goProgram);
      await buildGo(home.cwd, folder);
      return await home.run({ program: join(home.cwd, 'client'), args: [], env: {} }, input);
    },
  },
  {
    ...{ sdk: 'java', registry: 'maven', name: 'com.openai:openai-java' },
    async program(home, input, folder) {
      await writeFile(join(home.cwd, 'Main.java'), javaProgram);
      return await home.run({ program: 'java', args: ['-cp', join(folder, '*'), 'Main.java'], env: {} }, input);
    },
  },
];

for (const { sdk, registry, name, program } of sdks) {
  const title = `openai-${sdk} repeats only what can succeed, and its user reads what is wrong`;
  const reason = missingFor(registry);
  if (reason !== undefined) {
    skipTest(test, { title, reason });
    continue;
  }
  test.serial(title, async (t) => {
    t.timeout(900_000); // it may install and compile
    const folder = await providePackages(registry, packagesOf(name));
    await repeatsWhatCanSucceed(t, sdk, (home, input) => program(home, input, folder));
  });
}
