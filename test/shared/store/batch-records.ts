import { ulid } from 'ulid';
import type { Batch, BatchResult, BatchRetry, StoredFile } from '../../../shared/batches/batch.ts';

const createdAt = new Date('2026-12-05T10:11:12.345Z');
const expiresAt = new Date('2026-12-06T10:11:12.345Z');

export function fileOf(given: Partial<StoredFile> = {}): StoredFile {
  return {
    id: `file-${ulid()}`,
    account: 'user:ann',
    filename: 'requests.jsonl',
    purpose: 'batch',
    state: 'ready',
    bytes: 100,
    lines: 10,
    tokens: 1_000,
    createdAt,
    expiresAt,
    ...given,
  };
}

export function batchOf(given: Partial<Batch> = {}): Batch {
  return {
    id: `batch_${ulid()}`,
    account: 'user:ann',
    keyId: 'key_1',
    endpoint: '/v1/chat/completions',
    completionWindow: '24h',
    inputFile: `file-${ulid()}`,
    inputFilename: 'in.jsonl',
    metadata: null,
    errorFormat: 'flat',
    state: 'in_progress',
    open: true,
    tokens: 1_000,
    counts: { total: 0, completed: 0, failed: 0 },
    position: { line: 1, byte: 0 },
    errors: [],
    createdAt,
    expiresAt,
    version: 1,
    ...given,
  };
}

export function resultOf(batch: string, line: number, given: Partial<BatchResult> = {}): BatchResult {
  return {
    batch,
    line,
    customId: `line ${line}`,
    requestId: `req_${line}-1`,
    failed: false,
    promptTokens: 10,
    completionTokens: 5,
    cachedTokens: 1,
    estimated: false,
    status: 200,
    body: '{"choices":[]}',
    error: null,
    ...given,
  };
}

export function retryOf(batch: string, line: number, given: Partial<BatchRetry> = {}): BatchRetry {
  return { batch, line, number: 2, failures: 1, losses: 0, notBefore: expiresAt, ...given };
}
