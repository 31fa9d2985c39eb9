import {
  limitOf,
  type Message,
  openAiNode,
  openAiPython,
  pythonArguments,
  type Step,
  samplingOf,
  type TriedEndpoint,
  written,
} from './tried-endpoint.ts';

/** The body of `POST /v1/responses`. */
type ResponseRequest = {
  model: string;
  input: Message[];
  max_output_tokens?: number;
  temperature?: number;
  top_p?: number;
  stream: true;
};

type Event = {
  type: string;
  delta?: string;
  code?: string;
  message?: string;
  response?: {
    status?: string;
    usage?: { input_tokens: number; output_tokens: number; total_tokens: number } | null;
    incomplete_details?: { reason?: string } | null;
  };
};

export const responses: TriedEndpoint<ResponseRequest> = {
  label: 'Responses',
  path: '/v1/responses',
  takes: 'messages',
  isGenerating: true,
  isStreamed: true,

  requestOf(draft) {
    const limit = limitOf(draft);
    return {
      model: draft.model,
      input: written(draft.messages),
      ...(limit !== undefined && { max_output_tokens: limit }),
      ...samplingOf(draft),
      stream: true,
    };
  },

  read(data): Step {
    const event = JSON.parse(data) as Event; // the service's own event
    switch (event.type) {
      case 'error':
        return { failure: event };
      case 'response.output_text.delta':
        return { text: event.delta ?? '' };
      case 'response.completed':
      case 'response.incomplete':
        return endOf(event.response ?? {});
      default:
        return {};
    }
  },

  node,
  python,
};

function endOf({ status, usage, incomplete_details: details }: NonNullable<Event['response']>): Step {
  return {
    isEnd: true,
    finishReason: details?.reason ?? status ?? '',
    ...(usage && {
      tokens: { prompt: usage.input_tokens, completion: usage.output_tokens, total: usage.total_tokens },
    }),
  };
}

function node(request: ResponseRequest, baseUrl: string): string {
  return openAiNode(
    baseUrl,
    `const stream = await client.responses.create(${JSON.stringify(request, null, 2)});
for await (const event of stream) {
  if (event.type === 'response.output_text.delta') process.stdout.write(event.delta);
}`,
  );
}

function python(request: ResponseRequest, baseUrl: string): string {
  return openAiPython(
    baseUrl,
    `stream = client.responses.create(
${pythonArguments(request)}
)
for event in stream:
    if event.type == "response.output_text.delta":
        print(event.delta, end="", flush=True)`,
  );
}
