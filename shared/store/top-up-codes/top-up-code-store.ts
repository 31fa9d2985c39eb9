import type { ShownCodeState, TopUpCode } from './top-up-code.ts';

/** A decision on a code. Without `next` it remains unchanged. The function is pure, so it can be called as often as needed. */
export type CodeDecision<Result> = { result: Result; next?: TopUpCode };
export type DecideCode<Result> = (code: TopUpCode | undefined) => CodeDecision<Result>;

/** Codes in the state `state` at the time `now`, all if it is omitted. `after` is the id of the code before the first. */
export type CodePage = { state?: ShownCodeState | undefined; now: Date; after?: string | undefined; limit: number };

/** Top-up codes. They are never removed, so each is also the record of who created it, and who redeemed or revoked it. */
export interface TopUpCodeStore {
  /** Inserts new codes. If it fails, some of them may have been inserted: no one knows these codes. */
  insertCodes(codes: readonly TopUpCode[]): Promise<void>;

  findCode(hash: string): Promise<TopUpCode | undefined>;

  /** Changes a code as `decide` returns. `next` is written only if its state has not changed; otherwise `decide` is called again. */
  changeCode<Result>(id: string, decide: DecideCode<Result>): Promise<Result>;

  /** Lists codes, newest first. */
  listCodes(page: CodePage): Promise<TopUpCode[]>;

  /** Lists codes in the state `claimed` since before this time, in order of their ids. */
  listClaimedCodes(page: { before: Date; after: string; limit: number }): Promise<TopUpCode[]>;
}
