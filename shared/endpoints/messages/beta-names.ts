import { validationError } from '../../errors.ts';
import type { ReadHeader } from '../definition/endpoint.ts';

/** Betas that only change the prompt, the answer's format or how tokens are counted. Source: Anthropic's SDK, and what its agents send. */
const passed = new Set([
  ...['claude-code-20250219', 'fine-grained-tool-streaming-2025-05-14', 'effort-2025-11-24'],
  ...['computer-use-2024-10-22', 'computer-use-2025-01-24', 'computer-use-2025-11-24', 'inline-tools-2026-09-15'],
  ...['output-128k-2025-02-19', 'output-300k-2026-03-24', 'context-1m-2025-08-07', 'context-management-2025-06-27'],
  ...['dev-full-thinking-2025-05-14', 'interleaved-thinking-2025-05-14', 'thinking-token-count-2026-05-13'],
  ...['thinking-display-updates-2026-08-18', 'thinking-binding-controls-2026-08-01', 'task-budgets-2026-03-13'],
  ...['model-context-window-exceeded-2025-08-26', 'compact-2026-01-12', 'compact-2026-09-04'],
  ...['mid-conversation-tool-changes-2026-07-01', 'mid-conversation-output-config-2026-07-01'],
  ...['mid-conversation-system-clear-at-2026-08-21', 'structured-outputs-2025-11-13', 'pdfs-2024-09-25'],
  ...['prompt-caching-2024-07-31', 'extended-cache-ttl-2025-04-11', 'cache-diagnosis-2026-04-07'],
  ...['token-counting-2024-11-01', 'token-efficient-tools-2025-02-19', 'redact-thinking-2026-02-12'],
  ...['mid-conversation-system-2026-04-07', 'per-turn-control-2026-07-01', 'prompt-caching-scope-2026-01-05'],
  ...['advanced-tool-use-2025-11-20', 'structured-outputs-2025-12-15'],
]);

/**
 * Betas that spend the operator's money or reach beyond the model, by the beginning of their names, which end with a date. Without them a
 * request would mean something else than its client wants. Betas of tools and fields that are refused themselves are only removed: agents
 * send such names with every request.
 */
const refused: Readonly<Record<string, string>> = {
  'fast-mode': 'a faster mode has a higher price',
  'mcp-client': 'the provider calls servers that the request names',
  'mcp-tunnels': "the provider calls servers in the operator's network",
  'files-api': "the request names files of the operator's account",
  skills: "code runs in a container of the operator's account, which is billed",
};

/**
 * Reads the header `anthropic-beta`: names that are not known do not reach the backend, because they may mean anything. Fails with
 * `VALIDATION_ERROR` for those that are refused. `isListed` says what the operator allows, by
 * names such as `anthropic-beta.fast-mode-2026-02-01`.
 */
export const readBetas: ReadHeader = (sent, isListed) => {
  const names = [...new Set(sent.split(',').map((name) => name.trim()))].filter((name) => name !== '');
  const isAllowed = (name: string) => isListed(`anthropic-beta.${name}`);
  const wrong = names.find((name) => reasonAgainst(name) !== undefined && !isAllowed(name));
  if (wrong !== undefined) {
    const hint = `the operator can allow it: "anthropic-beta.${wrong}" in extra_fields of the model`;
    const message = `${wrong} is not accepted: ${reasonAgainst(wrong)} (${hint})`;
    throw validationError([{ path: 'anthropic-beta', message, refused: 'anthropic-beta' }]);
  }
  const kept = names.filter((name) => passed.has(name) || isAllowed(name));
  const dropped = names.filter((name) => !kept.includes(name)).map((name) => `anthropic-beta.${name}`);
  return { kept: kept.join(', '), dropped };
};

function reasonAgainst(name: string): string | undefined {
  const stem = name.replace(/-\d{4}-?\d{2}-?\d{2}$/, '');
  return Object.hasOwn(refused, stem) ? refused[stem] : undefined;
}
