import type { ApiError } from '../../errors.ts';

/** Tokens as a backend reported them. `cachedTokens` are part of the prompt. `isPartial`: text has come after the report. */
export type ReportedUsage = {
  promptTokens: number;
  completionTokens: number;
  cachedTokens: number;
  isPartial?: true;
};

/** The tokens that the answer reports to its client. */
export type AnswerTokens = Pick<ReportedUsage, 'promptTokens' | 'completionTokens'>;

/**
 * `model`: the name that the client knows. The others stand in for an id and a time that a backend left out; `createdAt` in Unix seconds.
 */
export type AnswerContext = { model: string; requestId: string; createdAt: number };

/** A whole answer of a backend. `usage` is undefined if the backend reported none that can be read. */
export type WholeAnswer = { text: string; answer: object; usage: ReportedUsage | undefined };

/** How the answers of one endpoint are read, counted and passed on. Each method gets answers that its own `parse` has returned. */
export interface AnswerFormat {
  /** Set if answers have vectors, which are cut out of the text that `parse` gets. */
  readonly vectors?: VectorFormat;
  /** The limit of one answer in bytes, unless its model has another. Default: that of text. */
  readonly bytesMax?: number;
  /** Fails with `BackendError`. */
  parse(text: string): WholeAnswer;
  /** All that the model has written, for counting. */
  writtenIn(answer: WholeAnswer): string;
  /** Returns this share of the answer, ended as a backend ends it at its output limit. */
  cut(answer: WholeAnswer, share: number): WholeAnswer;
  /**
   * The body for the client: as the backend wrote it, except another name of the model, a usage that was not reported or is too large, and
   * properties that are missing although the endpoint's published description requires them.
   */
  present(answer: WholeAnswer, tokens: AnswerTokens, context: AnswerContext): string;
  /** Undefined if the endpoint has no streams. */
  readonly stream?: StreamFormat;
  /** Answers without a backend, if none of them can: `promptTokens` is counted by tokenizer. */
  estimate?(promptTokens: number): string;
}

export interface VectorFormat {
  /** `mark`: a text that no backend can know. */
  createCutter(mark: string): VectorCutter;
  /** The vectors as the payload asks for them. What they grow by is spent of the budget. */
  encode(vectors: readonly Vector[], asked: { payload: string; budget: SizeBudget }): Promise<readonly Vector[]>;
}

/** One vector: its bytes as they came, in parts. */
export type Vector = readonly Buffer[];

/** An answer without its vectors: its text has marks in their places, which `join` replaces. */
type CutAnswer = {
  text: string;
  vectors: readonly Vector[];
  join(text: string, vectors: readonly Vector[]): Buffer[];
};

export interface VectorCutter {
  /** Takes the next bytes of the body, and keeps them. Fails with `BackendError`. */
  take(bytes: Buffer): void;
  /** Fails with `BackendError`. */
  end(): CutAnswer;
}

export interface StreamFormat {
  convert(options: StreamOptions): StreamConverter;
  /** The data of the events that say what a whole answer says, for a backend that answers a stream request with one. */
  eventsOf(answer: WholeAnswer): string[];
  /** For whole answers that are requested as streams: further fields that the request needs, and what makes the answer of it. */
  readonly assembly?: {
    readonly fields: Readonly<Record<string, unknown>>;
    create(options: StreamOptions): AnswerAssembler;
  };
  /** The end of a stream for its client. */
  ending(): StreamEnding;
}

/** The limit of all parts of an answer together: bytes, or characters of what is assembled. Fails with `too_large` beyond it. */
export type SizeBudget = { spend(bytes: number): void };

/**
 * What is kept of an answer is spent of `budget`. `choices`: how many were asked for, of all `prompts`.
 */
export type StreamOptions = AnswerContext & {
  budget: SizeBudget;
  choices: number;
  prompts: number;
};

/** What came with one event: the text of the model, and the backend's token count so far, if it reports one. */
export type WrittenPart = { text: string; tokens: number | undefined };

export const nothingWritten: WrittenPart = { text: '', tokens: undefined };

/** The progress of a stream. */
export interface StreamProgress {
  /** Whether the answer proper has begun: a token came, or an end without tokens. Until then another backend can take over. */
  begun(): boolean;
  /**
   * Whether the backend has reported the end of the answer. A stream that ends without it broke off
   * (contract.md#ms1-complete-answers).
   */
  complete(choicesAsked: () => number): boolean;
  /** What came with the event that was taken last. */
  written(): WrittenPart;
}

/** Converts a streamed answer, event by event, for the client. */
export interface StreamConverter extends StreamProgress {
  /**
   * Takes the data of one event. Returns what is ready to be sent, which is empty until the answer has begun. Fails with `BackendError`.
   */
  take(data: string): string;
  /** Ends what is open as a backend would at its output limit, in place of the event that was taken last. */
  cut(choicesAsked: number): string;
  /** The backend's id of the answer. */
  id(): string | undefined;
  /** The usage that was reported last. */
  usage(): ReportedUsage | undefined;
  /**
   * The least number of tokens written so far: a piece has at least one, and no model's tokens are longer than eight characters on average.
   */
  tokensWritten(): number;
  /** What the model has written so far, cut at a million characters, for counting if no usage was reported. */
  text(): { sample: string; characters: number };
  /** The final events, with the tokens of the answer: the backend's own usage if it has as many (contract.md#d5-usage-of-a-request). */
  end(tokens: AnswerTokens, options: { includeUsage: boolean }): string;
}

/** Assembles a streamed answer into a whole one. `id`, `usage` and `text` are as in `StreamConverter`. */
export interface AnswerAssembler extends StreamProgress, Pick<StreamConverter, 'id' | 'usage' | 'text'> {
  /** Takes the data of one event. Fails with `BackendError`. */
  take(data: string): void;
  /** Ends each choice that was open before the last event, as a backend would at its limit. */
  cut(choicesAsked: number): void;
  /** The answer so far, as the backend would write it whole, with the client's name of the model. */
  answer(): WholeAnswer;
}

type ErrorContext = { requestId: string; docsUrl: string };

/** The form of an endpoint's errors. */
export interface ErrorFormat {
  /** The JSON body of an HTTP response. */
  body(error: ApiError, context: ErrorContext): object;
}

/** How a stream of an endpoint ends for its client: the text after its last event. */
export interface StreamEnding {
  /** Called with all text that is sent. */
  follow?(text: string): void;
  complete(): string;
  /** The stream broke off. Without it, a client would take the answer for complete (contract.md#d4-broken-streams). */
  broken(error: ApiError, requestId: string): string;
}
