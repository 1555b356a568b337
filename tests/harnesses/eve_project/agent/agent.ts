import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { defineAgent } from "eve";
import { door } from "./lib/outlast.js";

export default defineAgent({
  model: createOpenAICompatible(door())("gpt-5.1"),
  modelContextWindowTokens: 200_000,
  defaultTools: false,
});
