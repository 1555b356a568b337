import { defineTool } from "eve/tools";
import { runs } from "../lib/shop";

export default defineTool(runs("Run a command."));
