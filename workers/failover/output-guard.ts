import type { WrittenPart } from '../../shared/endpoints/definition/answer-format.ts';
import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { TokenUsage } from '../../shared/jobs/replies.ts';
import { countPromptTokens, countTokens } from './count-tokens.ts';

/** Tokenizers differ: of some scripts, one token of the backend can be three of ours. */
function slackOf(tokensMax: number): number {
  return 3 * tokensMax + 256;
}

/**
 * Keeps an answer within the limit that its request was admitted with (contract.md#l8-output-limit,
 * decisions.md#the-worker-enforces-the-output-limit).
 */
export function createOutputGuard({
  endpoint,
  payload,
  outputTokensMax,
}: Pick<QueuedCall, 'endpoint' | 'payload' | 'outputTokensMax'>) {
  const { request } = endpointAt(endpoint);
  const repeats = request.repeatsOfPrompt?.(payload) ?? 0;
  const meter = createTokenMeter();
  let choices: number | undefined;
  let repeatedTokens: number | undefined;
  let passedOurs = false;

  /** The most that may be charged: the limit for each choice. The payload is parsed only once the limit of one choice is exceeded. */
  function tokensMax(): number {
    choices ??= request.choicesOf?.(JSON.parse(payload)) ?? 1;
    return outputTokensMax * choices;
  }

  const isAbove = (tokens: number) => tokens > outputTokensMax && tokens > tokensMax();

  /** Text that repeats the prompt cannot be told from the model's own, so as much more is allowed. */
  async function isOverOurs(): Promise<boolean> {
    if (repeats > 0) repeatedTokens ??= repeats * (await countPromptTokens({ endpoint, payload }));
    passedOurs = await meter.isOver(slackOf(tokensMax() + (repeatedTokens ?? 0)));
    return passedOurs;
  }

  const cappedTokens = (tokens: number) => (isAbove(tokens) ? tokensMax() : tokens);

  return {
    /** Whether the answer exceeds its limit with this chunk, by the backend's count, else by ours. */
    passes({ text, tokens }: WrittenPart): boolean | Promise<boolean> {
      meter.add(text);
      if (tokens !== undefined) return isAbove(tokens);
      const mayBe = meter.isOver(slackOf(outputTokensMax));
      return mayBe === false ? false : mayBe.then((isOver) => isOver && isOverOurs());
    },
    /** Whether it exceeded its limit by our count. Then the backend's earlier count no longer applies. */
    hasPassedOurs: (): boolean => passedOurs,
    /** The part of a whole answer that is within its limit; 1 if all of it is. */
    shareWithin({ completionTokens, estimated }: Pick<TokenUsage, 'completionTokens' | 'estimated'>): number {
      if (!isAbove(completionTokens)) return 1;
      const most = estimated ? slackOf(tokensMax()) : tokensMax();
      return Math.min(1, most / completionTokens);
    },
    /** The usage, with no more tokens than may be charged. */
    capped: (usage: TokenUsage): TokenUsage => ({ ...usage, completionTokens: cappedTokens(usage.completionTokens) }),
    cappedTokens,
  };
}

export type OutputGuard = ReturnType<typeof createOutputGuard>;

/** The last part of a text is counted again with what follows it, because a token may continue there. */
const tailCharacters = 512;
const keptCharactersMax = 65_536;
/** The tokenizer counts this much exactly. */
const countedAtOnce = 16_384;

/** Counts the tokens of a growing text, only as far as necessary. */
export function createTokenMeter() {
  let counted = 0;
  let rest = '';
  /** Upper bound: no text has more tokens than bytes in UTF-8. */
  let most = 0;

  async function settle(characters: number): Promise<void> {
    // The tokenizer also has a boundary there.
    const space = rest.lastIndexOf(' ', characters);
    const end = space > 0 ? space : characters;
    counted += await countTokens(rest.slice(0, end));
    rest = rest.slice(end);
  }

  async function count(tokensMax: number): Promise<number> {
    while (rest.length > countedAtOnce) {
      await settle(countedAtOnce);
      if (counted > tokensMax) return counted;
    }
    if (rest.length > 2 * tailCharacters) await settle(rest.length - tailCharacters);
    most = counted + (await countTokens(rest));
    return most;
  }

  return {
    add(text: string): void {
      rest += text;
      most += Buffer.byteLength(text);
    },
    /** Whether the text has more than `tokensMax` tokens, by tokenizer. Returns at once while the text is too short for that. */
    isOver(tokensMax: number): false | Promise<boolean> {
      if (most <= tokensMax && rest.length <= keptCharactersMax) return false;
      return count(tokensMax).then((tokens) => tokens > tokensMax);
    },
  };
}
